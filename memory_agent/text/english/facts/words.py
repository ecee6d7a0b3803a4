"""Closed lists of English words: where a list is closed, a rule can be certain."""

from __future__ import annotations

from typing import Final

from memory_agent.text.english import words
from memory_agent.text.tables import table
from memory_agent.text.word_set import word_set

JOBS: Final = (
    "accountant actor actress actuary administrator advisor adviser analyst animator archaeologist architect "
    "archivist artist astronomer attorney auditor baker banker barber barista bartender biologist "
    "bookkeeper botanist broker builder butcher caregiver caretaker carpenter cashier chef chemist "
    "chiropractor clerk coach composer consultant contractor cook coordinator copywriter counselor counsellor curator "
    "dancer dentist designer developer dietitian director doctor driver economist editor electrician engineer "
    "entrepreneur farmer filmmaker firefighter florist freelancer gardener geologist guard hairdresser historian "
    "housekeeper illustrator instructor interpreter janitor journalist judge landscaper lawyer lecturer librarian "
    "locksmith machinist manager marketer mechanic midwife musician nanny nurse nutritionist officer optician "
    "optometrist painter paralegal paramedic pediatrician pharmacist photographer physician physicist "
    "physiotherapist pilot plumber potter principal producer professor programmer psychiatrist psychologist "
    "receptionist recruiter researcher roofer salesperson scientist sculptor secretary seamstress sergeant singer "
    "statistician student supervisor surgeon surveyor tailor teacher technician therapist tiler translator tutor "
    "veterinarian videographer waiter waitress welder writer zoologist"
)
JOB: Final = (
    rf"(?:{'|'.join(JOBS.split())}|(?:research|teaching|medical|dental|legal|executive|administrative|nursing)"
    r" assistant|(?:real estate|travel|insurance) agent|flight attendant|software developer|vp|cto|ceo|team lead)"
)
NO_MODIFIER: Final = (
    r"(?:bit|lot|kind|sort|of|not|huge|big|terrible|lousy|bad|good|great|better|best|worse|aspiring|former|ex|wannabe"
    r"|amateur|hobby|home|would-be|future|total|complete|proud|visual|natural|born|fan|slow|fast|quick|horrible|decent"
    r"|keen|avid|pretty|new|who|that|than|like|as|for|with|in|at|on|to|potential|paying|lifelong|hands-on|real"
    r"|different|mere|team(?! lead)|favorite|favourite|fellow|passionate|poor|careful|strong|weak|confident|happy|frustrated"
    r"|designated|self-taught|budding|struggling|beginner|novice|certified public|busy|simple|more|less|very|lazy"
    r"|my|your|his|her|their|our|own|volunteer|part-time|guest|dedicated|experienced|seasoned|hard-working|recent)"
)
TIMES: Final = (
    r"(?:(?:early |late |mid-?)?(?:morning|afternoon|evening)s?|late[- ]night|night(?:-time|time)?|lunch-?time|midday"
    r"|noon|weekday|weekend|daytime)"
)
OCCASIONS: Final = "meeting call appointment workout flight class lesson run walk interview shift shower session exercise train"

NO_NAME: Final = word_set(
    """Maybe Back Later Crazy Old When If Tomorrow Today Tonight Asap Not Now Monday Tuesday Wednesday Thursday Friday
    Saturday Sunday On In At I Silly Weird Stupid Lucky Anytime Happy Sorry Sad Glad Good Great Fine Okay Ok Well
    Team Gen Generation Type Here There Just So Very Really Also Still Always Never Currently Actually Totally
    Looking Trying Going Planning Working Thinking Interested Excited Curious New Feeling Using Having Getting Making
    Born Based From With Without About Down Up Off Out Over Under Done Ready Busy Free Late Early Tired Hungry Sick
    Single Married Engaged Divorced Pregnant Gay Straight Bi Bisexual Lesbian Trans Queer Nonbinary Vegan Vegetarian
    Catholic Christian Muslim Jewish Buddhist Hindu Sikh Atheist Agnostic Protestant Baptist Mormon Orthodox Lutheran
    Republican Democrat Liberal Conservative Libertarian Black White Asian Latino Latina Hispanic Native Indigenous
    English French German Spanish Dutch Swedish Danish Finnish Polish Turkish Greek Swiss Czech Thai Arab Welsh
    Scottish Irish British Portuguese Chinese Japanese Korean Russian Indian Filipino Filipina European African
    American Canadian Mexican Brazilian Italian Austrian Belgian Norwegian Hungarian Romanian Ukrainian Iranian
    Iraqi Israeli Pakistani Bengali Vietnamese Indonesian Malaysian Australian Egyptian Nigerian Kenyan Ethiopian
    Colombian Peruvian Chilean Argentinian Cuban Jamaican Persian Kurdish Afghan Texan Californian Londoner
    Aries Taurus Gemini Cancer Leo Virgo Libra Scorpio Sagittarius Capricorn Aquarius Pisces Gryffindor Slytherin
    Ravenclaw Hufflepuff INTJ INTP ENTJ ENTP INFJ INFP ENFJ ENFP ISTJ ISFJ ESTJ ESFJ ISTP ISFP ESTP ESFP
    Iron God Santa Batman Superman Groot Legend A An The My Your His Her Our Their It This That No Yes Sure Thanks
    Please Bored Broke Blessed Grateful Thankful Proud Afraid Scared Worried Confused Lost Stuck Stressed Alone Home
    Dr Mr Mrs Ms Prof Professor Doctor Captain Sir Lady Lord King Queen President CEO Manager Director Student
    Instagram Facebook Google Amazon Twitter Reddit Python Java Christmas Easter Halloween Thanksgiving
    January February March April June July August September October November December Spring Summer Autumn Winter
    Googled Facetimed FaceTimed Venmoed Ubered Zoomed Skyped Airbnb Uber
    Like Because Since Although While Then And But Or To Of For"""
)
"""Capitalised words that follow "I'm" or "my wife" and are nobody's name."""

LANGUAGES: Final = (
    "English French German Spanish Italian Portuguese Dutch Swedish Danish Norwegian Finnish Polish Czech Slovak "
    "Hungarian Romanian Bulgarian Greek Turkish Russian Ukrainian Serbian Croatian Arabic Hebrew Persian Farsi Hindi "
    "Urdu Bengali Punjabi Tamil Telugu Marathi Gujarati Thai Vietnamese Indonesian Malay Tagalog Filipino Chinese "
    "Mandarin Cantonese Japanese Korean Swahili Amharic Yoruba Igbo Zulu Afrikaans Catalan Basque Welsh Irish Gaelic "
    "Icelandic Latin Esperanto Armenian Georgian Mongolian Nepali Khmer Lao Burmese"
)
RELATIONS: Final = {word: name for word, name in table("english", "words").items("kin").items() if name}
ANIMALS: Final = (
    "dog|cat|puppy|kitten|pup|kitty|rabbit|bunny|hamster|guinea pig|parrot|parakeet|cockatiel|budgie|canary|turtle"
    "|tortoise|snake|gecko|lizard|iguana|ferret|horse|pony|goldfish|hedgehog|chinchilla|rat|golden retriever"
    "|labrador(?: retriever)?|german shepherd|beagle|poodle|corgi|dachshund|husky|border collie|chihuahua|bulldog"
    "|french bulldog|pug|shih tzu|tabby|siamese cat|maine coon|terrier|greyhound|cocker spaniel|spaniel|retriever"
    "|shepherd|bearded dragon|axolotl"
)
DIETS: Final = "vegetarian|vegan|pescatarian|pescetarian|flexitarian|lactose[- ]intolerant|gluten[- ]intolerant|celiac|coeliac"
MONTHS: Final = rf"(?:{'|'.join(words.MONTHS)}|{'|'.join(month[:3] for month in words.MONTHS)}|Sept)"
NO_PLACE: Final = frozenset((*words.MONTHS, *words.WEEKDAYS)) | word_set(
    "Python Java JavaScript Linux Windows Mac React Rust Slack Teams Chrome "
    "Firefox Android iOS Apartment Unit Room Building House Gen Generation Team Accounting HR IT Finance Marketing "
    "Sales Engineering Support I God Jesus Christ Earth Mars Discord Zoom Excel Product Design Operations Research "
    "Management Level Phase Step Section Chapter Kubernetes AWS Azure Postgres MongoDB Git GitHub GitLab Notion Jira"
)
